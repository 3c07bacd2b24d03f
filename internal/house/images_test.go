package house_test

import (
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var imageDecoder = regexp.MustCompile(`\b(image|jpeg|gif)\.Decode(All)?\(`)

// TestImageFilesAreDecodedInOnePlace: the standard library's decoders do not interpolate
// chroma, ignore EXIF, and drop the canvas of a GIF, so only package imagefile calls them.
func TestImageFilesAreDecodedInOnePlace(t *testing.T) {
	found := 0
	for name, text := range sources(t) {
		if path.Base(path.Dir(name)) == "imagefile" {
			found += len(imageDecoder.FindAllString(text, -1))
		} else {
			require.Empty(t, imageDecoder.FindString(text), name)
		}
	}
	require.NotZero(t, found)
}
