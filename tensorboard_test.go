package vagen_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"vagen"
)

// fields reads a protobuf message into its fields' raw values.
func fields(t *testing.T, b []byte) map[protowire.Number][][]byte {
	out := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		require.Positive(t, n)
		b = b[n:]
		size := protowire.ConsumeFieldValue(num, typ, b)
		require.Positive(t, size)
		value := b[:size]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		out[num] = append(out[num], value)
		b = b[size:]
	}
	return out
}

// tfRecords splits an event file into messages and checks every checksum.
func tfRecords(t *testing.T, path string) [][]byte {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	check := func(data, sum []byte) {
		crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, crc>>15|crc<<17, binary.LittleEndian.Uint32(sum)-0xa282ead8)
	}
	var out [][]byte
	for len(raw) > 0 {
		n := binary.LittleEndian.Uint64(raw)
		check(raw[:8], raw[8:12])
		message := raw[12 : 12+n]
		check(message, raw[12+n:16+n])
		out, raw = append(out, message), raw[16+n:]
	}
	return out
}

func TestTensorBoardFilesHoldEveryFiniteMetric(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tb")
	s, err := vagen.NewTensorBoard(dir)
	require.NoError(t, err)
	require.NoError(t, s.Event(vagen.Event{Kind: "step", Step: 300, Metrics: vagen.Metrics{"b": 0.25, "a": -1e9, "c": math.NaN(), "d": math.Inf(-1)}}))
	require.NoError(t, s.Event(vagen.Event{Kind: "save", Step: 300}))
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Close(), os.ErrClosed)

	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	records := tfRecords(t, files[0])
	require.Len(t, records, 2, "an event without numbers is not written")
	require.Equal(t, "brain.Event:2", string(fields(t, records[0])[3][0]))

	event := fields(t, records[1])
	step, _ := protowire.ConsumeVarint(event[2][0])
	require.EqualValues(t, 300, step)
	require.Greater(t, math.Float64frombits(binary.LittleEndian.Uint64(event[1][0])), 1.7e9, "seconds since 1970")
	var got []string
	for _, value := range fields(t, event[5][0])[1] {
		v := fields(t, value)
		got = append(got, string(v[1][0]))
		want := map[string]float32{"a": -1e9, "b": 0.25}[string(v[1][0])]
		require.Equal(t, want, math.Float32frombits(binary.LittleEndian.Uint32(v[2][0])))
	}
	require.Equal(t, []string{"a", "b"}, got)
}

func TestTensorBoardNamesTheFolderThatItCannotUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	_, err := vagen.NewTensorBoard(path)
	require.ErrorContains(t, err, "vagen: tensorboard: ")
	require.ErrorContains(t, err, path)
}
