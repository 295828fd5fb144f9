#pragma once
#include <cstddef>
#include <cstdint>

/// As compress/cpu/scatter.h, for device memory. Indices that are not below n are told (core/cuda/runtime.h) and left
/// out.
namespace laconic::compress::cuda {

void clear_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, std::size_t n);
void subtract_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, std::size_t n,
                 const float* values, bool single);
/// Indices are each there once.
void add_at(float* dense, const std::uint32_t* indices, std::size_t count, std::size_t n, float factor,
            const float* values, bool single);

/// left[i] = x[i] - sent[i], or 0 where that is no finite number. left may be x or sent.
void keep_left(float* left, const float* x, const float* sent, std::size_t n);

/// to[j] = from[indices[j]];  to[indices[j]] = from[j]
void gather_at(float* to, const float* from, const std::uint32_t* indices, std::size_t count, std::size_t n);
void put_at(float* to, const float* from, const std::uint32_t* indices, std::size_t count, std::size_t n);

/// *wrong (zero before) becomes 1 unless indices ascend and are below n.
void check_indices(const std::uint32_t* indices, std::size_t count, std::size_t n, std::uint32_t* wrong);

/// The 4 bytes at `to`, or at `at`, which need no alignment: number; *wrong becomes 1 unless they are it.
void put_number(std::byte* to, std::uint32_t number);
void check_number(const std::byte* at, std::uint32_t number, std::uint32_t* wrong);

/// compress/select/layer_drop.h, accumulate_layer: *sum, in device memory, becomes the sum of magnitudes or of squares.
/// accumulated : null, or += gradient
void accumulate_layer(const float* gradient, float* accumulated, std::size_t n, bool squares, double* sum);

/// *mean = the mean of the values, added up in double in their order by lanes (compress/ordered_sum.h).
void mean_of(const float* values, std::size_t count, float* mean);

/// compress/slim.h, put_step_by
void put_step_by(float* value, float* before, float* delta, std::size_t n, float weight);

}  // namespace laconic::compress::cuda
