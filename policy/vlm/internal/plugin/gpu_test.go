package plugin

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// machineWith has a GPU and a driver that describes itself with text.
func machineWith(text string) machine {
	m := machine{files: fstest.MapFS{"dev/nvidiactl": {}, "dev/nvidia0": {}}}
	if text != "" {
		m.files.(fstest.MapFS)["proc/driver/nvidia/version"] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// The texts are those of NVIDIA's closed and open kernel modules.
const (
	closedDriver = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc version 12.3.0\n"
	openDriver   = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)\nGCC version: 11.4.0\n"
)

func TestAMachineThatCannotRunThePluginIsNamedBeforeADownload(t *testing.T) {
	require.ErrorContains(t, machine{files: fstest.MapFS{}}.check(), "no NVIDIA GPU was found")
	require.ErrorContains(t, machineWith(closedDriver).check(), "NVIDIA's driver is 535.183.01, must be 580 or newer")
	for _, text := range []string{openDriver, "", "unreadable"} {
		require.NoError(t, machineWith(text).check(), text)
	}
	require.NoError(t, machine{files: fstest.MapFS{}, smi: true}.check())
}

func TestTheStartOfAPluginExplainsItsFailure(t *testing.T) {
	start := errors.New("PJRT error (code=9): No visible GPU devices")
	full := errors.New("PJRT error (code=8): RESOURCE_EXHAUSTED: Out of memory")
	for _, c := range []struct {
		m    machine
		err  error
		says string
	}{
		{machine{files: fstest.MapFS{}}, start, "no NVIDIA GPU was found"},
		{machineWith(closedDriver), start, "535.183.01"},
		{machineWith(openDriver), start, "CUDA_VISIBLE_DEVICES"},
		{machineWith(""), start, "driver is unknown"},
		{machineWith(openDriver), full, "XLA_PYTHON_CLIENT_MEM_FRACTION"},
	} {
		err := c.m.explain(c.err)
		testkit.Error(t, err, c.err, c.says)
	}
	require.NoError(t, machineWith("").explain(nil))
}
