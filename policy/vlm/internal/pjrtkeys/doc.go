// Package pjrtkeys gives a plugin of PJRT the key-value callbacks with which the processes of a
// client that spans several hosts find each other: the CUDA plugin exchanges topologies and the
// identifiers of NCCL's communicators through them. go-xla passes none when it creates a client,
// so this package replaces the plugin's function for creating clients.
//
// Training on several hosts (see policy/vlm, Nodes) does not need it: there every process has a client
// of its own. It is the base of collectives between the GPUs of several hosts, which need a client
// that spans them. That was not run: the CPU plugin accepts the callbacks, but has no mode for
// several processes, and go-xla would have to execute on local devices only. Without cgo the
// package is empty.
package pjrtkeys
