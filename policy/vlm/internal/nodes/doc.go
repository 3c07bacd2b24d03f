// Package nodes connects the processes that train one model together, the ranks of MPI.
//
// Each pair of ranks exchanges frames over MPI: a byte for the kind, eight bytes for the length, and the data. Beside
// them each rank tells all others at regular times that it lives. A rank that fails tells the others why, and one
// from which nothing is heard is an error, too: a group of ranks works completely or not at all. MPI alone does not
// notice a rank that stands still or a connection that is cut.
package nodes
