package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/config"
)

func TestTheNumberOfDevicesIsFreeWhereItChangesNoByte(t *testing.T) {
	of := func(devices int, same bool) *config.Config {
		c := config.Default()
		c.Model.Devices, c.Model.SameBytes = devices, same
		return &c
	}
	require.Empty(t, config.Differences(of(1, true), of(4, false)))
	require.Empty(t, config.Differences(of(2, false), of(8, false)))
	parts := func(devices int) *config.Config {
		c := of(devices, false)
		c.Model.PerDevice = true
		return c
	}
	require.Equal(t, []string{"model.devices: 2 → 4"}, config.Differences(parts(2), parts(4)))
	require.Equal(t, []string{"model.part_per_device: true → false"}, config.Differences(parts(2), of(2, false)))
	require.Equal(t, []string{"model.devices: 1 → 4"}, config.Differences(of(1, false), of(4, false)))
	require.Equal(t, []string{"model.devices: 0 → 4"}, config.Differences(of(0, false), of(4, false)),
		"on one CPU 0 is another division of work")
}

func TestTheNumberOfNodesIsFreeWhereItChangesNoByte(t *testing.T) {
	of := func(nodes int) *config.Config {
		c := config.Default()
		c.Env.Name, c.Model.Nodes, c.Model.Devices = "frozenlake", nodes, 1
		require.NoError(t, c.Validate())
		return &c
	}
	same := of(1)
	same.Model.SameBytes = true
	require.Empty(t, config.Differences(same, of(2)))
	require.Empty(t, config.Differences(of(4), of(2)))
	require.Equal(t, []string{"model.num_nodes: 1 → 2"}, config.Differences(of(1), of(2)),
		"one process divides a step only with same_bytes")
}

func TestOneNodeComputesTheSame(t *testing.T) {
	c, err := config.Load("", "env.name=frozenlake", "model.num_nodes=2", "model.devices=2")
	require.NoError(t, err)
	one := c.OneNode()
	require.NoError(t, one.Validate())
	require.Empty(t, config.Differences(&c, &one))
	require.Equal(t, config.ModelConfig{Backend: "auto", Recompute: "nothing", CompileCache: "auto",
		RolloutDType: "float32", Devices: 2, SameBytes: true, Nodes: 1, NodeTimeout: 600}, one.Model)
	require.NoError(t, c.Override("model.part_per_device=true"))
	one = c.OneNode()
	require.Equal(t, []any{4, false}, []any{one.Model.Devices, one.Model.SameBytes}, "as many parts")
}
