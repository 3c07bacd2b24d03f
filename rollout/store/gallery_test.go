package store

import (
	"bytes"
	"fmt"
	"image/png"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// tree reads all files below a folder.
func tree(t testing.TB, dir string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(raw)
		return err
	}))
	return out
}

func TestGalleriesKeepNamesOrImages(t *testing.T) {
	ts := trajectories(t)
	sizes := map[string]int{}
	for name, o := range map[string]GalleryOptions{"names": {NamesOnly: true}, "small": {Level: png.BestCompression},
		"plain": {Level: png.NoCompression}} {
		dir := filepath.Join(t.TempDir(), "new", name)
		g, err := OpenGallery(dir, o)
		require.NoError(t, err)
		require.NoError(t, g.Save("step_1.parquet", 1, ts))
		require.Zero(t, g.omitted)
		for _, file := range tree(t, dir) {
			sizes[name] += len(file)
		}
		if o.NamesOnly {
			require.Len(t, tree(t, dir), 1)
			_, err = Load(filepath.Join(dir, "step_1.parquet"))
			require.ErrorIs(t, err, os.ErrNotExist)
			r, err := Open(filepath.Join(dir, "step_1.parquet"))
			require.NoError(t, err)
			defer r.Close()
			r.Lenient()
			again := filepath.Join(dir, "again.parquet")
			w, err := Create(again)
			require.NoError(t, err)
			for s, err := range r.All() {
				require.NoError(t, err)
				for _, turn := range s.Turns {
					for _, im := range turn.Observation.Images {
						require.IsType(t, Absent(""), im)
						require.True(t, im.Bounds().Empty())
					}
				}
				require.NoError(t, w.Write(1, s.Trajectory))
			}
			require.NoError(t, w.Close())
			files := tree(t, dir)
			require.Equal(t, files["/step_1.parquet"], files["/again.parquet"], "absent images keep their names")
			continue
		}
		got, err := Load(filepath.Join(dir, "step_1.parquet"))
		require.NoError(t, err)
		for i := range got {
			same(t, ts[i], got[i].Trajectory)
		}
	}
	require.Less(t, sizes["names"], sizes["small"])
	require.Less(t, sizes["small"], sizes["plain"])
}

// TestWhatAKilledProcessLeftOfAFileIsRemoved when the file is written again.
func TestWhatAKilledProcessLeftOfAFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".a.parquet.1-1.tmp", ".b.parquet.1-1.tmp", ".c.parquet.1-1.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.NoError(t, Save(filepath.Join(dir, "a.parquet"), 1, nil))
	require.NoError(t, SaveScores(filepath.Join(dir, "b.parquet"), 1, nil))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{".c.parquet.1-1.tmp", "a.parquet", "b.parquet"}, names)
}

// TestWhatAPowerFailureLeftIsWrittenAgain: an empty file is no image, and an image that cannot be synced
// is one that is not stored.
func TestWhatAPowerFailureLeftIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	save := func() *Gallery {
		g, err := OpenGallery(dir, GalleryOptions{})
		require.NoError(t, err)
		require.NoError(t, g.Save("step_1.parquet", 1, trajectories(t)))
		return g
	}
	save().Sync()
	want := tree(t, dir)
	images, err := filepath.Glob(filepath.Join(dir, imageFolder, "*.png"))
	require.NoError(t, err)
	require.NotEmpty(t, images)
	require.NoError(t, os.Truncate(images[0], 0))
	g := save()
	require.Equal(t, want, tree(t, dir))
	require.Equal(t, images[:1], g.images.fresh)
	require.NoError(t, os.Remove(images[0]))
	g.Sync()
	require.Equal(t, 1, g.omitted)
	require.Empty(t, g.images.fresh)
}

// TestResumedRunsKeepTheQuota: whatever was stored when a process was killed, a resumed
// run writes the same folder as an uninterrupted one.
func TestResumedRunsKeepTheQuota(t *testing.T) {
	ts := trajectories(t)
	all, err := OpenGallery(t.TempDir(), GalleryOptions{Level: png.BestSpeed})
	require.NoError(t, err)
	require.NoError(t, all.Save("all.parquet", 0, ts))
	quota := all.images.bytes * 3 / 5
	save := func(dir string, log *bytes.Buffer, from, to int) *Gallery {
		g, err := OpenGallery(dir, GalleryOptions{Level: png.BestSpeed, Quota: quota,
			Log: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, err)
		for i := from; i < to; i++ {
			require.NoError(t, g.Save(fmt.Sprintf("step_%d.parquet", i), i, ts[i:i+1]))
		}
		return g
	}
	var log bytes.Buffer
	whole := t.TempDir()
	g := save(whole, &log, 0, len(ts))
	require.Positive(t, g.omitted)
	require.Equal(t, 1, strings.Count(log.String(), "the folder of images is full"), "logged once")
	sum, err := pictureBytes(filepath.Join(whole, imageFolder))
	require.NoError(t, err)
	require.Positive(t, sum)
	require.LessOrEqual(t, sum, quota)
	for died := range ts {
		for back := range died + 1 {
			dir := t.TempDir()
			save(dir, &log, 0, died)
			for _, left := range []string{".step_1.parquet-7.tmp", imageFolder + "/.image-3.tmp"} {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, imageFolder), 0o755))
				testkit.Write(t, filepath.Join(dir, left), "cut")
			}
			save(dir, &log, back, len(ts))
			require.Equal(t, tree(t, whole), tree(t, dir), "died at %d, resumed from %d", died, back)
		}
	}
}

// TestImagesThatCannotBeWrittenAffectNothingElse, such as those for which there is no
// room: the table is complete, and a warning is logged.
func TestImagesThatCannotBeWrittenAffectNothingElse(t *testing.T) {
	dir := t.TempDir()
	testkit.Write(t, filepath.Join(dir, imageFolder), "") // a file with the name of the folder
	var log bytes.Buffer
	_, err := OpenGallery(dir, GalleryOptions{})
	require.Error(t, err, "reported at once")
	require.NoError(t, os.Remove(filepath.Join(dir, imageFolder)))
	g, err := OpenGallery(dir, GalleryOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	testkit.Write(t, filepath.Join(dir, imageFolder), "")
	require.NoError(t, g.Save("a.parquet", 1, trajectories(t)))
	require.Positive(t, g.omitted)
	require.Equal(t, 1, strings.Count(log.String(), "an image cannot be written"))
	require.FileExists(t, filepath.Join(dir, "a.parquet"))
	for _, name := range []string{"../a.parquet", "x/a.parquet", "/a.parquet"} {
		require.ErrorContains(t, g.Save(name, 1, nil), "must be a file name")
	}
	_, err = OpenGallery(filepath.Join(dir, "a.parquet"), GalleryOptions{})
	require.Error(t, err)
}

// TestFilesWithFalseSizesUseLittleMemory corrupts every byte of a file in several ways.
// Reading uses 128 MiB at most, where headers could ask for 2 GiB.
func TestFilesWithFalseSizesUseLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, Save(path, 1, trajectories(t)[:1]))
	good := testkit.Read(t, path)
	refused := 0
	for _, spoilt := range []byte{0xff, 0x7f, 0xfc} {
		for i := 0; i < len(good); i += 97 + i%7 {
			bad := bytes.Clone(good)
			bad[i] = spoilt
			if readAll(t, bad) != nil {
				refused++
			}
		}
	}
	require.Positive(t, refused)
}
