// Package numpyrand reproduces, bit for bit, the random streams from which the
// Python environments draw their levels: numpy's Generator (PCG64 seeded through
// SeedSequence), numpy's legacy RandomState and the random module of the Python
// standard library (both MT19937).
//
// The streams exist so that a seed names the same level here and there. Draws of
// this library's own come from package rng.
package numpyrand
