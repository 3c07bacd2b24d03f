// Package house has only tests. They check the tree as a whole: which packages exist
// and who imports whom, that a module outside the tree can use them, and that the
// programs and commands of the documents run.
package house
