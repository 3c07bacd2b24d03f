package mask_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
)

// stored is a sequence that uses all of the format.
func stored(t testing.TB) *mask.Sequence {
	t.Helper()
	s := twoTurns(t)
	if err := errors.Join(s.AppendContext(mask.Observation, math.MaxInt32, math.MinInt32), s.AppendSummary(-1, 300),
		s.AddSpan("answer", 2, 4), s.AddSpan("", 10, 12)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoredSequencesSurviveARoundTrip(t *testing.T) {
	for name, s := range map[string]*mask.Sequence{"full": stored(t), "two turns": twoTurns(t),
		"empty": new(mask.Sequence)} {
		data, err := s.MarshalBinary()
		require.NoError(t, err)
		got := twoTurns(t)
		require.NoError(t, got.UnmarshalBinary(data), name)
		if !got.Equal(s) || got.Turns() != s.Turns() || got.EndsWithSummary() != s.EndsWithSummary() {
			t.Errorf("%s: %+v came back as %+v", name, s, got)
		}
		appended, err := s.AppendBinary([]byte("x"))
		if err != nil || !bytes.Equal(appended, append([]byte("x"), data...)) {
			t.Errorf("%s: appending gives %x, %v", name, appended, err)
		}
	}
}

// TestStoredFormIsStable pins the bytes of version 1: what was stored once has
// to stay readable.
func TestStoredFormIsStable(t *testing.T) {
	const version1 = "564d534b01" + // magic, version
		"06" + "0002" + "0403" + "0202" + "0401" + "0202" + "0502" + // segments
		"02040608" + "0a0c0e10" + "feffffff0f" + "ffffffff0f" + "01d804" + // tokens
		"02" + "06616e73776572" + "0202" + "00" + "0a02" // spans
	data, err := stored(t).MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, version1, hex.EncodeToString(data))
}

func TestDamagedBytesAreRefused(t *testing.T) {
	data, err := stored(t).MarshalBinary()
	require.NoError(t, err)
	refused := func(name string, b []byte, word string) {
		t.Helper()
		s := twoTurns(t)
		err := s.UnmarshalBinary(b)
		if !errors.Is(err, mask.ErrFormat) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %v, want ErrFormat with %q", name, err, word)
		}
		if !s.Equal(twoTurns(t)) {
			t.Errorf("%s: the sequence changed", name)
		}
	}
	for n := range data {
		refused("cut off", data[:n], "byte ")
	}
	refused("magic alone", data[:4], "byte 4: version: not a varint")
	refused("too long", append(bytes.Clone(data), 0), "1 bytes too many")
	with := func(at int, b byte) []byte {
		out := bytes.Clone(data)
		out[at] = b
		return out
	}
	refused("magic", with(0, 'v'), `"VMSK"`)
	refused("version", with(4, 2), "version 2")
	refused("no such kind", with(6, 6), "kind: 6")
	refused("prompt as a summary", with(6, 1), "summary")
	refused("empty segment", with(7, 0), "piece 0")
	refused("segment of the same kind", with(8, 0), "piece 1")
	refused("prompt after a turn", with(10, 0), "piece 2")
	refused("summary in between", with(12, 5), "piece 4")
	refused("more segments than bytes", []byte("VMSK\x01\xff\xff\xff\xff\x0f"), "segments: ")
	refused("token beyond int32", []byte("VMSK\x01\x01\x00\x01\x80\x80\x80\x80\x20\x00"), "token 0")
	refused("longer than the rest", []byte("VMSK\x01\x01\x00\x05\x02\x00"), "length: 5")
	refused("span off the turn", []byte("VMSK\x01\x01\x00\x01\x02\x01\x00\x00\x01"), "span 0")
	refused("span of nothing", []byte("VMSK\x01\x01\x04\x01\x02\x01\x00\x00\x00"), "span 0")
	refused("span beyond the row", []byte("VMSK\x01\x01\x04\x01\x02\x01\x00\x02\x01"), "start: 2")
	refused("token cut off", []byte("VMSK\x01\x01\x04\x01"), "token 0 is not an int32")
	refused("ends with a name", []byte("VMSK\x01\x01\x04\x01\x02\x01\x01a"), "byte 12: start: not a varint")
	refused("name cut off", []byte("VMSK\x01\x01\x04\x01\x02\x01\x01"), "name")
}
