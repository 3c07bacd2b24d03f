// Package pjrttable replaces functions of PJRT plugins that go-xla has loaded. It finds the table of
// functions, a struct PJRT_Api, by reflection in an unexported field of go-xla v0.4.1, and
// checks what it relies on. Without cgo it is empty.
package pjrttable
