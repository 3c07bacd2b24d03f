// Package nodes connects the processes that train one model together, on one host or on several.
//
// Node 0 listens at the coordinator's address. The others connect to it and introduce themselves:
// with the address at which they expect the others, and with the facts that must be equal on all
// nodes. Whenever all are there, node 0 sends a round to all: the list of processes. Each connects
// with all others and answers. A process that starts again during the rendezvous replaces the one
// with its number, and another round begins. After the answers of all, node 0 begins the group,
// and the ports are closed. Then each pair of nodes has one TCP connection, over which they exchange
// frames: a byte for the kind, eight bytes for the length, and the data.
//
// A failing node sends its error to the others, and a lost connection is an error, too: once it has
// begun, a group of nodes works completely or not at all.
//
// With TLS all connections are encrypted, and both sides verify each other's certificate. Without it
// the token, which every node presents when it connects, keeps strangers out of a private network, not
// listeners on it.
package nodes
