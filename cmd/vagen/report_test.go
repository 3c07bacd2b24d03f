package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReportWritesOneFileAndPlots: with a name for each file that is written, and usage
// errors for folders that are not runs and metrics that no run has.
func TestReportWritesOneFileAndPlots(t *testing.T) {
	run := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(run, "metrics.jsonl"),
		[]byte("{\"kind\":\"step\",\"step\":1,\"train/score\":0.5,\"a\":1}\n{\"kind\":\"step\",\"step\":2,\"train/score\":0.75,\"a\":2}\n"), 0o644))
	dir := t.TempDir()
	out, plots := filepath.Join(dir, "report.html"), filepath.Join(dir, "plots")
	printed := succeed(t, "report", run, "--out", out, "--plots", plots)
	require.Equal(t, out+"\n"+filepath.Join(plots, "train_score.png")+"\n"+filepath.Join(plots, "train_score.svg")+"\n",
		printed)
	page, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(page), "window.VAGEN_REPORT = {")
	require.Contains(t, string(page), "config.yaml", "what is missing is said")
	succeed(t, "report", run, "--out", out, "--plots", plots, "--metric", "a")
	require.FileExists(t, filepath.Join(plots, "a.svg"))

	require.Contains(t, refuse(t, "report", dir, "--out", out), "not the folder of a run")
	require.Contains(t, refuse(t, "report", run, "--out", out, "--plots", plots, "--metric", "none"), `no run has "none"`)
	require.Contains(t, refuse(t, "report", run, "--out", out, "--metric", "a"), "--metric needs --plots")
	require.Contains(t, refuse(t, "report", run, "--out", out, "--episodes", "501"), "not in [0, 500]")
}
