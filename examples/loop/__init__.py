"""The whole loop: a TRL trainer, an S3 board, islands of real engines behind poor links. `./demo` runs it."""
