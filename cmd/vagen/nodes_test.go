package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodesOfTheCommandAreChecked(t *testing.T) {
	dir := t.TempDir()
	config := divisible(t, dir)
	for says, overrides := range map[string][]string{
		"model.num_nodes is 3, must be 1, 2, 4 or 8": {
			"model.num_nodes=3"},
		"together at most 8 devices are allowed": {
			"model.num_nodes=4", "model.devices=4"},
		"trainer.stage is sft+rl, but model.num_nodes is 2": {
			"model.num_nodes=2", "trainer.stage=sft+rl"},
		"model.num_nodes is 2: bad configuration: vlm: bad option: Nodes.Count is 2: mpi: MPI is unavailable: this p": {
			"model.num_nodes=2"},
	} {
		c, said := command(t, dir, append([]string{"train", config, "--out", "refused"}, overrides...)...)
		require.Error(t, c.Run(), says)
		require.Equal(t, 2, c.ProcessState.ExitCode(), "%s", said)
		require.Contains(t, said.String(), says)
	}
	require.NoDirExists(t, dir+"/refused")
}
