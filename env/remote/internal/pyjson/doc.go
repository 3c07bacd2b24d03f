// Package pyjson reads and writes JSON like Python's json module, which the original
// services and clients use: NaN and Infinity are numbers, floats are written with a
// decimal point and integers without, members may keep their order, and non-ASCII
// characters may be escaped.
package pyjson
