package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm"
	"vagen/policy/vlm/tokenizer"
	"vagen/train/config"
)

// TestTheStudyOfEchoChangesOneThingAtATime: beside state pay and the prediction of observations, and what the
// presets set, its runs are equal; but for the written lake they are those of the study of slips.
func TestTheStudyOfEchoChangesOneThingAtATime(t *testing.T) {
	o, err := parse([]string{"-echo"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join("runs", "ablation-echo"), filepath.Join("docs", "ablation-echo.md")},
		[]string{o.out, o.report})
	s := o.setting()
	for _, preset := range []string{base, full} {
		plain, err := s.configure(preset, 3, "auto")
		require.NoError(t, err)
		predicts, err := s.configure(preset+echoing, 3, "auto")
		require.NoError(t, err)
		require.Equal(t, []string{"algorithm.echo.alpha: 0 → 0.1"}, config.Differences(&plain, &predicts))
		seen, err := slipping().configure(preset, 3, "auto")
		require.NoError(t, err)
		seen.Env.Config["render_mode"] = "text"
		require.Empty(t, config.Differences(&seen, &plain))
	}
	require.Equal(t, [][]string{{base, base + echoing}, {base, full}}, [][]string{pair(s.presets), pair(presets)})
}

// TestAWrittenLakeIsOneTokenToACell, as its picture is.
func TestAWrittenLakeIsOneTokenToACell(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, vlm.Create(dir, tiny().shape, echo().words(), 0))
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	tokens, err := tok.Encode(" _  O  G  P \n X  V  _  _ \n")
	require.NoError(t, err)
	require.Len(t, tokens, 8)
}
