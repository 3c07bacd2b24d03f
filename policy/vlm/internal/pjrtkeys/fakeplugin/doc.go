// Package fakeplugin is a plugin of PJRT for tests: creating a client exchanges keys through the
// callbacks, as plugins for several hosts do. Without cgo it is empty.
package fakeplugin
