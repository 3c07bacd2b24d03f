// Package pyjson reads and writes JSON as Python's json module does, which is
// what the original services and clients speak: numbers that are not finite are
// written NaN and Infinity, floats keep their point, integers have none, objects
// may keep the order of their members, and text beyond ASCII may be escaped.
package pyjson
