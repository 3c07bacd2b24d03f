// Package numpyrand reproduces, bit for bit, the random streams with which the
// Python environments generate their levels: numpy's Generator (PCG64 seeded through
// SeedSequence), numpy's legacy RandomState and the random module of the Python
// standard library (both MT19937).
//
// With these streams a seed gives the same level here and in the Python environments.
// This library's own draws use package rng.
package numpyrand
