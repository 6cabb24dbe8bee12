// Arrays that C++ gives to Python.
#ifndef SKERRY_PYTHON_NATIVE_ARRAYS_H_
#define SKERRY_PYTHON_NATIVE_ARRAYS_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>

// A flat numpy array over `data`, which `owner` keeps.
template <typename T>
nanobind::object FlatArray(T* data, size_t count, nanobind::handle owner) {
  static std::remove_const_t<T> none{};
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>, nanobind::c_contig>(
      count == 0 ? &none : data, {count}, owner));
}

// The same over what `container`, which is moved, holds; T is its element as Python sees it.
template <typename T, typename Container>
nanobind::object FlatArrayOf(Container container) {
  auto kept = std::make_unique<Container>(std::move(container));
  auto* data = reinterpret_cast<T*>(kept->data());
  const size_t count = kept->size() * sizeof(*kept->data()) / sizeof(T);
  const nanobind::capsule owner(kept.release(), [](void* held) noexcept { delete static_cast<Container*>(held); });
  return FlatArray<T>(data, count, owner);
}

#endif  // SKERRY_PYTHON_NATIVE_ARRAYS_H_
