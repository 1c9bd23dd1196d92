package main

import (
	"math"
	"slices"
)

// quantile of a set; NaN of none. It does not change the order of its argument.
func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(xs))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}

func median(xs []float64) float64 { return quantile(xs, 0.5) }

func mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

func differences(with, without []float64) []float64 {
	out := make([]float64, len(with))
	for i := range with {
		out[i] = with[i] - without[i]
	}
	return out
}

func ratios(with, without []float64) []float64 {
	out := make([]float64, len(with))
	for i := range with {
		out[i] = with[i] / without[i]
	}
	return out
}
