package store

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/imagefile"
)

// TestSummariesAreThoseOfTheEpisodes: reading only the columns of summaries gives the same
// as reading the whole record, and needs no images.
func TestSummariesAreThoseOfTheEpisodes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	ts := trajectories(t)
	require.NoError(t, Save(path, 7, ts))
	r, err := Open(path)
	require.NoError(t, err)
	defer r.Close()
	r.NamesOnly()
	got, err := r.Summaries()
	require.NoError(t, err)
	texts, err := r.Texts()
	require.NoError(t, err)
	require.Len(t, got, len(ts))
	require.Len(t, texts, len(ts))
	for i, tr := range ts {
		want := Summary{Step: 7, Env: tr.Env, Seed: tr.Seed, Group: tr.Group, Index: tr.Index, End: tr.End,
			Success: tr.Success,
			Reward:  tr.Return(), Turns: len(tr.Turns)}
		if tr.Err != nil {
			want.Error = tr.Err.Error()
		}
		for k := range tr.Rows {
			want.Tokens += tr.Rows[k].Len()
		}
		require.Equal(t, want, got[i])
		var said Texts
		for _, turn := range tr.Turns {
			said.Observations, said.Responses = append(said.Observations, turn.Observation.Text),
				append(said.Responses, turn.Response)
		}
		require.Equal(t, said, texts[i])
	}
	for _, i := range []int{4, 0, 5} {
		s, err := r.At(i)
		require.NoError(t, err)
		require.Equal(t, ts[i].Seed, s.Seed)
		for k, turn := range s.Turns {
			require.Equal(t, ts[i].Turns[k].Response, turn.Response)
			for j, im := range turn.Observation.Images {
				require.Equal(t, Absent(nameOf(imagefile.NRGBA(ts[i].Turns[k].Observation.Images[j]))), im)
			}
		}
	}
	_, err = r.At(6)
	require.ErrorContains(t, err, "the file has 6")
}
