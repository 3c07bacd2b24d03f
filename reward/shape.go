package reward

import (
	"strings"

	"vagen/internal/pytext"
)

// shape is the pattern of a response: anchors, with free text of any length
// between one anchor and the next. An anchor is a run of literal tags that may
// be separated by white space. As a regular expression,
//
//	anchor₀ (.*?) anchor₁ (.*?) … anchorₙ      anchor = tag \s* tag \s* tag
//
// with dot matching every character. Because there is only free text between anchors,
// using the first match of each anchor in turn finds in one pass what a backtracking
// matcher finds (the leftmost match with the shortest pieces): if the rest matches
// after a later match of an anchor, it also matches after the first one.
type shape struct {
	anchors [][]string
	pieces  []string // section of each free text; pieces[i] follows anchors[i]
}

// maxPieces limits the free texts of a shape so that matching allocates nothing.
const maxPieces = 5

type pieces [maxPieces]string

// find matches the shape anywhere in s.
func (sh *shape) find(s string, out *pieces) bool {
	_, at, ok := findAnchor(s, 0, sh.anchors[0])
	for i := 1; ok && i < len(sh.anchors); i++ {
		start := at
		var end int
		if end, at, ok = findAnchor(s, start, sh.anchors[i]); ok {
			out[i-1] = s[start:end]
		}
	}
	return ok
}

// covers reports whether all of s, without white space at its ends, has the shape,
// and returns its pieces. Free text may include tags if the match needs that; then the
// last piece is the one that includes them.
func (sh *shape) covers(s string, out *pieces) bool {
	s = pytext.Strip(s)
	last := len(sh.anchors) - 1
	// The last anchor is one tag in every format, so its position is known.
	body, ok := strings.CutSuffix(s, sh.anchors[last][0])
	if !ok {
		return false
	}
	at, ok := match(body, 0, sh.anchors[0])
	for i := 1; ok && i < last; i++ {
		start := at
		var end int
		if end, at, ok = findAnchor(body, start, sh.anchors[i]); ok {
			out[i-1] = body[start:end]
		}
	}
	if ok {
		out[last-1] = body[at:]
	}
	return ok
}

// findAnchor finds the first match of the anchor at or after from and returns its start and
// end.
func findAnchor(s string, from int, anchor []string) (start, end int, ok bool) {
	for {
		i := strings.Index(s[from:], anchor[0])
		if i < 0 {
			return 0, 0, false
		}
		start = from + i
		if end, ok = match(s, start, anchor); ok {
			return start, end, true
		}
		from = start + len(anchor[0])
	}
}

// match reports whether the anchor matches at byte i, and returns its end.
func match(s string, i int, anchor []string) (end int, ok bool) {
	for k, tag := range anchor {
		if k > 0 {
			i = skipSpace(s, i)
		}
		if !strings.HasPrefix(s[i:], tag) {
			return 0, false
		}
		i += len(tag)
	}
	return i, true
}
