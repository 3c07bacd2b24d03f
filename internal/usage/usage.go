// Package usage tells what this process takes of its machine. Where the system does
// not say, figures are 0.
package usage
