package main

import (
	"fmt"
	"hash/fnv"
	"regexp"

	"vagen/env/frozenlake"
	"vagen/examples/ownlearner/table"
	"vagen/policy"
)

// grid are the lines of a map in an observation.
var grid = regexp.MustCompile(`(?m)^[ _OGPX√]+$`)

// read is the tokenizer: the map that a message shows.
func read(m policy.Message) (state int32, ok bool) {
	lines := grid.FindAllString(m.Text, -1)
	h := fnv.New32a()
	for _, line := range lines {
		_, _ = h.Write([]byte(line + "\n")) // never fails
	}
	return int32(h.Sum32() >> 2), lines != nil
}

// newTable returns a policy with a critic, without a network. Its updates all have the same length: estimators
// differ in scale, and only what they say about turns is to be compared.
func newTable() *table.Table {
	var words []string
	for move := range frozenlake.Actions {
		words = append(words, fmt.Sprintf("<answer>%s</answer>", frozenlake.Action(move)))
	}
	t := table.New(words, read)
	t.Unit = true
	return t
}
