// Package house has only tests. They check the tree as a whole: the packages and their
// imports, their use from a module outside the tree, and the programs and commands of the
// documents.
package house
