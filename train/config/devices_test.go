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
	require.Equal(t, []string{"model.devices: 0 → 4"}, config.Differences(of(0, false), of(4, false)), "on one CPU 0 is another division of work")
}

func TestOneDivisionOfWorkIsChosen(t *testing.T) {
	c := config.Default()
	require.NoError(t, c.Override("model.same_bytes=true"))
	require.NoError(t, c.Override("model.part_per_device=true"))
	require.ErrorContains(t, c.Validate(), "model.part_per_device and model.same_bytes are both true")
}

func TestNumbersOfDevicesAreChecked(t *testing.T) {
	for _, set := range []string{"model.devices=3", "model.devices=16", "model.devices=-1"} {
		c := config.Default()
		require.NoError(t, c.Override(set))
		require.ErrorContains(t, c.Validate(), "must be 0, 1, 2, 4 or 8", set)
	}
}
