// Package linktest is for tests of programs with cgo, which the system's linker links: a test that imports it
// is linked without symbols, in less time. Stack traces need none, debuggers do: the tag debug keeps them, as in
//
//	dlv test --build-flags=-tags=debug ./policy/vlm
package linktest
