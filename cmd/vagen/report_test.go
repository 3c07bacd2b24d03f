package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestReportWritesOneFileAndPlots: with a name for each file that is written, and usage
// errors for folders that are not runs and metrics that no run has.
func TestReportWritesOneFileAndPlots(t *testing.T) {
	run := t.TempDir()
	testkit.Write(t, filepath.Join(run, "metrics.jsonl"),
		"{\"kind\":\"step\",\"step\":1,\"train/score\":0.5,\"a\":1}\n{\"kind\":\"step\",\"step\":2,\"train/score\":0.75,\"a\":2}\n")
	dir := t.TempDir()
	out, plots := filepath.Join(dir, "report.html"), filepath.Join(dir, "plots")
	printed := succeed(t, "report", run, "--out", out, "--plots", plots)
	require.Equal(t, out+"\n"+filepath.Join(plots, "train_score.png")+"\n"+filepath.Join(plots, "train_score.svg")+"\n",
		printed)
	page := testkit.Text(t, out)
	require.Contains(t, page, "window.VAGEN_REPORT = {")
	require.Contains(t, page, "config.yaml", "what is missing is said")
	succeed(t, "report", run, "--out", out, "--plots", plots, "--metric", "a")
	require.FileExists(t, filepath.Join(plots, "a.svg"))

	refuse(t, "not the folder of a run", "report", dir, "--out", out)
	refuse(t, `no run has "none"`, "report", run, "--out", out, "--plots", plots, "--metric", "none")
	refuse(t, "--metric needs --plots", "report", run, "--out", out, "--metric", "a")
	refuse(t, "not in [0, 500]", "report", run, "--out", out, "--episodes", "501")
}
