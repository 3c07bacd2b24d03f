package tensorboard_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/track"
	"vagen/train/track/tensorboard"
)

func TestTensorBoardFilesHoldEveryFiniteMetric(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tb")
	s, err := tensorboard.New(dir)
	require.NoError(t, err)
	require.NoError(t, s.Event(track.Event{Kind: "step", Step: 300,
		Metrics: track.Metrics{"b": 0.25, "a": -1e9, "c": math.NaN(), "d": math.Inf(-1)}}))
	require.NoError(t, s.Event(track.Event{Kind: "save", Step: 300}))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Restart(1), os.ErrClosed)

	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	records := traintest.TFRecords(t, files[0])
	require.Len(t, records, 2, "an event without numbers is not written")
	require.Equal(t, "brain.Event:2", string(traintest.Fields(t, records[0])[3][0]))

	event := traintest.Fields(t, records[1])
	step, _ := protowire.ConsumeVarint(event[2][0])
	require.EqualValues(t, 300, step)
	require.Greater(t, math.Float64frombits(binary.LittleEndian.Uint64(event[1][0])), 1.7e9, "seconds since 1970")
	var got []string
	for _, value := range traintest.Fields(t, event[5][0])[1] {
		v := traintest.Fields(t, value)
		got = append(got, string(v[1][0]))
		want := map[string]float32{"a": -1e9, "b": 0.25}[string(v[1][0])]
		require.Equal(t, want, math.Float32frombits(binary.LittleEndian.Uint32(v[2][0])))
	}
	require.Equal(t, []string{"a", "b"}, got)
}

func TestTensorBoardNamesTheFolderThatItCannotUse(t *testing.T) {
	path := testkit.File(t, "file", "")
	_, err := tensorboard.New(path)
	require.ErrorContains(t, err, "tensorboard: ")
	require.ErrorContains(t, err, path)
}
