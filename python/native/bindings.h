// The parts of the module skerry._core, one for each file. python/skerry gives them their public names and types.
//
// Every array argument is noconvert: nanobind would else pass a converted copy of an array of another type, values
// rounded and writes lost.
#ifndef SKERRY_PYTHON_NATIVE_BINDINGS_H_
#define SKERRY_PYTHON_NATIVE_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace nb = nanobind;

void BindCheckpoint(nb::module_& m);
void BindPatch(nb::module_& m);
void BindDiffApply(nb::module_& m);
void BindBoard(nb::module_& m);
void BindPublisher(nb::module_& m);  // a run's next version from arrays
void BindShards(nb::module_& m);     // the same, from the parts of several ranks
void BindSparse(nb::module_& m);     // loops over changed elements

#endif  // SKERRY_PYTHON_NATIVE_BINDINGS_H_
