package wandb

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// read takes a file apart by the description of LevelDB's log, checking sums, and
// returns its records.
func read(t *testing.T, path string) (records [][]byte) {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, ":W&B\xe1\xbe\x00", string(raw[:7]))
	var joined []byte
	for at := 7; at < len(raw); {
		if left := blockSize - at%blockSize; left < headerSize {
			require.Equal(t, make([]byte, left), raw[at:at+left])
			at += left
			continue
		}
		n := int(binary.LittleEndian.Uint16(raw[at+4:]))
		kind := raw[at+6]
		require.LessOrEqual(t, at%blockSize+headerSize+n, blockSize, "no fragment leaves its block")
		data := raw[at+headerSize : at+headerSize+n]
		require.Equal(t, crc32.ChecksumIEEE(append([]byte{kind}, data...)), binary.LittleEndian.Uint32(raw[at:]))
		at += headerSize + n
		require.Equal(t, kind == full || kind == first, joined == nil)
		joined = append(append([]byte{}, joined...), data...)
		if kind == full || kind == last {
			records, joined = append(records, joined), nil
		}
	}
	require.Nil(t, joined)
	return records
}

// parts are the fields of a message, by number.
func parts(t *testing.T, b []byte) map[protowire.Number][][]byte {
	out := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		require.Positive(t, n)
		size := protowire.ConsumeFieldValue(num, kind, b[n:])
		require.Positive(t, size)
		value := b[n : n+size]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		out[num] = append(out[num], value)
		b = b[n+size:]
	}
	return out
}

func varint(b []byte) uint64 { x, _ := protowire.ConsumeVarint(b); return x }

// TestFilesHoldWhatWasLogged reads a file that is longer than several blocks, with
// records that are longer than one.
func TestFilesHoldWhatWasLogged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run-a.wandb")
	start := time.Unix(1000, 5)
	f, err := Create(path, Run{ID: "a", Project: "p", Name: "n", Start: start, Config: map[string]any{"x": map[string]any{"y": 1.5}}})
	require.NoError(t, err)
	long := map[string]float64{}
	for i := range 3000 {
		long[fmt.Sprintf("a/very/long/name/%04d", i)] = float64(i)
	}
	require.NoError(t, f.Log(1, start.Add(2*time.Second), map[string]float64{"loss": 0.5, "bad": math.NaN()}))
	require.NoError(t, f.Log(2, start, long))
	for i := range 500 { // so that ends of blocks are met in many places
		require.NoError(t, f.Log(3+i, start, map[string]float64{strings.Repeat("m", i): math.Inf(-1)}))
	}
	require.NoError(t, f.Finish(0))

	records := read(t, path)
	require.Len(t, records, 2+2*502+1)
	for i, r := range records {
		require.EqualValues(t, i+1, varint(parts(t, r)[recordNum][0]))
	}
	run := parts(t, parts(t, records[1])[recordRun][0])
	require.Equal(t, "a p n", string(run[runID][0])+" "+string(run[runProject][0])+" "+string(run[runName][0]))
	setting := parts(t, parts(t, run[runConfig][0])[configUpdate][0])
	require.Equal(t, `x {"y":1.5}`, string(setting[configKey][0])+" "+string(setting[valueJSON][0]))
	logged := func(r []byte) map[string]string {
		out := map[string]string{}
		history := parts(t, parts(t, r)[recordHistory][0])
		for _, raw := range history[historyItem] {
			item := parts(t, raw)
			out[string(item[nestedKey][0])] = string(item[valueJSON][0])
		}
		out["step"] = fmt.Sprint(varint(parts(t, history[historyStep][0])[stepNum][0]))
		return out
	}
	require.Equal(t, map[string]string{"loss": "0.5", "bad": "NaN", "_step": "1", "step": "1", "_timestamp": "1002", "_runtime": "2"}, logged(records[3]))
	require.Len(t, logged(records[5]), 3004)
	require.Equal(t, "-Infinity", logged(records[9])["m"])
	require.Contains(t, parts(t, records[len(records)-1]), protowire.Number(recordExit))
}

func TestFilesThatCannotBeWrittenAreErrors(t *testing.T) {
	_, err := Create(filepath.Join(t.TempDir(), "none", "a"), Run{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Create(filepath.Join(t.TempDir(), "a"), Run{Config: map[string]any{"f": func() {}}})
	require.ErrorContains(t, err, "the setting f")
}

// TestRewoundFilesAreThoseOfOtherWays: a file from which rows were taken out is the
// file in which they never were, whatever blocks they ended in.
func TestRewoundFilesAreThoseOfOtherWays(t *testing.T) {
	start := time.Unix(1000, 0)
	write := func(detour int) []byte {
		path := filepath.Join(t.TempDir(), "run-a.wandb")
		f, err := Create(path, Run{ID: "a", Start: start})
		require.NoError(t, err)
		require.NoError(t, f.Log(1, start, map[string]float64{"loss": 1}))
		if detour > 0 {
			mark := f.Mark()
			for i := range detour {
				require.NoError(t, f.Log(2+i, start, map[string]float64{strings.Repeat("m", 1000): -1}))
			}
			require.NoError(t, f.Rewind(mark))
		}
		require.NoError(t, f.Log(2, start, map[string]float64{"loss": 2}))
		require.NoError(t, f.Finish(0))
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		return raw
	}
	for _, detour := range []int{1, 3, 100} {
		require.Equal(t, write(0), write(detour), detour)
	}
}
