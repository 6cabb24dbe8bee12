// The vector paths of class_scan.h, compiled once for each instruction set.
#ifndef SKERRY_PATCH_CLASS_KERNEL_H_
#define SKERRY_PATCH_CLASS_KERNEL_H_

#include "skerry/patch/class_scan.h"

namespace skerry {

void CountMembersVector(const std::byte* data, size_t elements, const MagnitudeClasses& classes, uint8_t* rows,
                        ClassCounts& counts);
void NumberMembersVector(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                         std::span<const uint32_t> positions, ClassCounts& first, uint8_t* class_of,
                         uint32_t* number_of);
size_t FindMembersVector(const std::byte* data, size_t elements, const MagnitudeClasses& classes, const uint8_t* rows,
                         WantedMembers& wanted, uint32_t first_position, uint32_t* positions, uint32_t* payloads);

}  // namespace skerry

#endif  // SKERRY_PATCH_CLASS_KERNEL_H_
