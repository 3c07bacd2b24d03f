package store

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMessagesCarryWhatFilesCarry: trajectories that were encoded and decoded equal those of
// a file, with their images.
func TestMessagesCarryWhatFilesCarry(t *testing.T) {
	ts := trajectories(t)
	images := map[string][]byte{}
	raw, err := Encode(7, ts, func(name string, png func() ([]byte, error)) (err error) {
		images[name], err = png()
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, images)
	again, err := Encode(7, ts, func(string, func() ([]byte, error)) error { return nil })
	require.NoError(t, err)
	got, err := Decode(raw, len(ts), func(name string) ([]byte, error) { return images[name], nil })
	require.NoError(t, err)
	path := t.TempDir() + "/a.parquet"
	require.NoError(t, Save(path, 7, ts))
	want, err := Load(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = Decode(again, len(ts), func(name string) ([]byte, error) { return images[name], nil })
	require.NoError(t, err)
	require.Equal(t, want, got, "what a message carries does not depend on those before it")
	_, err = Decode(raw, 1, nil)
	require.ErrorIs(t, err, ErrFormat, "more than allowed")
	lost := errors.New("lost")
	_, err = Decode(raw, len(ts), func(string) ([]byte, error) { return nil, lost })
	require.ErrorIs(t, err, lost)
	_, err = Decode(raw, len(ts), func(string) ([]byte, error) { return raw, nil })
	require.ErrorIs(t, err, ErrFormat, "not the image")
	for cut := range 60 {
		_, err = Decode(raw[:cut*len(raw)/60], len(ts), func(name string) ([]byte, error) { return images[name], nil })
		require.ErrorIs(t, err, ErrFormat)
	}
}

// TestOptionsOfMessagesKeepTheirTypes, secrets included.
func TestOptionsOfMessagesKeepTheirTypes(t *testing.T) {
	want := map[string]any{"a": uint64(1), "b": int64(-1), "c": 2.0, "d": []any{"x", true, nil}, "api_key": "s3cret"}
	text, err := EncodeOptions(want)
	require.NoError(t, err)
	got, err := DecodeOptions(text)
	require.NoError(t, err)
	require.Equal(t, want, got)
	text, err = EncodeOptions(nil)
	require.NoError(t, err)
	require.Empty(t, text)
	got, err = DecodeOptions(text)
	require.NoError(t, err)
	require.Empty(t, got)
}
