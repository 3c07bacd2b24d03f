// Package figures has the test that draws the pictures of docs/concepts.md from a tiny episode, with the masks, the
// placement of rewards and the estimators of this library:
//
//	go test ./internal/figures -update
package figures
