package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var imageDecoder = regexp.MustCompile(`\b(image|jpeg|gif)\.Decode(All)?\(`)

// TestImageFilesAreDecodedInOnePlace: the standard library's decoders do not interpolate
// chroma, ignore EXIF, and drop the canvas of a GIF, so only package imagefile calls them.
func TestImageFilesAreDecodedInOnePlace(t *testing.T) {
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		if filepath.Base(filepath.Dir(path)) == "imagefile" {
			found += len(imageDecoder.FindAll(raw, -1))
			return nil
		}
		require.Empty(t, imageDecoder.FindString(string(raw)), path)
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, found)
}
