// Package nodes connects the processes that train one model together, on one host or on several.
//
// Node 0 serves a key-value store at the coordinator's address. Every node publishes there the
// address at which it expects the others and the facts that must be equal on all nodes. Then
// each pair of nodes has one TCP connection, over which they exchange frames: a byte for the
// kind, eight bytes for the length, and the data. Ports are closed as soon as all nodes are
// connected.
//
// A failing node sends its error to the others, and a lost connection is an error, too: a group
// of nodes works completely or not at all. Data is not encrypted; the token, which every node
// presents when it connects, keeps strangers out of a private network, not listeners on it.
package nodes
