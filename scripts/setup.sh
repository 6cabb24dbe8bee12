# Set-up that ./demo and ./test share; sourced by both. Every function is re-runnable and quick when there is nothing to do.
# Expects to be called from the repository's root, under `set -e`.

# Debian packages of packages.txt.
setup_packages() {
  local wanted missing=() package
  wanted=$(grep -v '^#' packages.txt)
  for package in $wanted; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# setup_build PRESET [TARGET...]: configure and build with Debian's CMake.
setup_build() {
  local preset=$1
  shift
  /usr/bin/cmake --preset "$preset"
  /usr/bin/cmake --build --preset "$preset" ${1:+--target "$@"}
}

# setup_venv DIR REQUIREMENTS...: a Python environment that has exactly these requirements installed.
setup_venv() {
  local directory=$1 stamp
  shift
  stamp=$(cat "$@" | sha256sum | cut -d' ' -f1)
  [ "$(cat "$directory/.requirements" 2>/dev/null)" = "$stamp" ] && return 0
  echo "making the Python environment $directory"
  rm -rf "$directory"
  python3 -m venv "$directory"
  local arguments=() file
  for file in "$@"; do arguments+=(-r "$file"); done
  "$directory/bin/python" -m pip install -q --disable-pip-version-check "${arguments[@]}"
  echo "$stamp" > "$directory/.requirements"
}

# setup_package DIR: this tree's Python package in a Python environment that has what pyproject.toml requires. Built in build/python with
# the flags, and so with the objects, of the dev preset, which ccache has already.
setup_package() {
  local directory=$1 stamp
  stamp=$(find CMakeLists.txt CMakePresets.json pyproject.toml apps/skerry python src -type f ! -name '*.pyc' ! -name '*_test.*' -print0 |
    sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
  [ "$(cat "$directory/.package" 2>/dev/null)" = "$stamp" ] && return 0
  echo "building the Python package into $directory"
  CXX=/usr/bin/c++ CMAKE_EXECUTABLE=/usr/bin/cmake SKBUILD_CMAKE_ARGS=--preset=dev SKBUILD_CMAKE_BUILD_TYPE=None \
    SKBUILD_BUILD_DIR=build/python \
    "$directory/bin/python" -m pip --disable-pip-version-check -q install --no-build-isolation --no-deps --force-reinstall .
  echo "$stamp" > "$directory/.package"
}

# setup_vllm_venv DIR: vLLM's CPU build (2.5 GB, some minutes), without what its packages bring for other machines and what breaks their
# imports.
setup_vllm_venv() {
  local directory=$1
  setup_venv "$directory" requirements-vllm.txt
  [ -e "$directory/.trimmed" ] && return 0
  "$directory/bin/python" -m pip --disable-pip-version-check -q uninstall -y torchvision torchaudio torchcodec triton 2>/dev/null
  touch "$directory/.trimmed"
}

# setup_vllm DIR: the Python environment of tests/vllm: vLLM, and this tree's Python package.
setup_vllm() {
  setup_vllm_venv "$1"
  setup_package "$1"
}
