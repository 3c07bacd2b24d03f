package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/regular"
	"vagen/train/config"
)

// startName is the file with the description of a warm start, in its folder.
const startName = "start.txt"

// startMark begins the comment with the warm start, after a run's configuration.
const startMark = "# warm start: "

// settings returns what a run depends on: its configuration, and the warm start in a comment.
func (s *study) settings(c config.Config) ([]byte, error) {
	raw, err := c.YAML()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(raw, "%s\n", s.startLine()), nil
}

// startLine describes the warm start.
func (s *study) startLine() string {
	return fmt.Sprintf("%snoise %v, moves follow statements: %v, lessons %+v", startMark, s.noise, s.follows, s.lessons)
}

// sameStart refuses a folder with another warm start, which a study leaves that was stopped before its
// first result. Folders of earlier versions have no description.
func (s *study) sameStart(dir string) error {
	raw, err := regular.ReadFile(filepath.Join(dir, startName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if was, is := string(raw), s.startLine(); err == nil && !slices.Equal(chosen(was), chosen(is)) {
		err = fmt.Errorf("%s has another warm start: choose another -out, or remove it:\n  %s → %s", dir,
			strings.TrimPrefix(was, startMark), strings.TrimPrefix(is, startMark))
	}
	return err
}

// differences lists how the settings stored in a file differ from those that a run has now: keys
// of the configuration, also those that do not exist any more, and the warm start.
func (s *study) differences(name string, stored []byte, c config.Config) ([]string, error) {
	old, removed, err := config.ReadStored(name, stored)
	if err != nil {
		return nil, err
	}
	lines := append(config.Differences(&old, &c), removed...)
	was, is := "none", s.startLine()
	for line := range strings.Lines(string(stored)) {
		if strings.HasPrefix(line, startMark) {
			was = strings.TrimSpace(line)
		}
	}
	if !slices.Equal(chosen(was), chosen(is)) {
		lines = append(lines, fmt.Sprintf("warm start: %s → %s", strings.TrimPrefix(was, startMark),
			strings.TrimPrefix(is, startMark)))
	}
	return lines, nil
}

// chosen lists the words of a warm start's description without the fields that have the zero value,
// or the default of every lesson: a field that was added since is absent in the stored one.
func chosen(line string) []string {
	brackets := strings.NewReplacer("{", " ", "}", " ", "[", " ", "]", " ")
	words := func(text string) []string { return strings.Fields(brackets.Replace(text)) }
	defaults := words(fmt.Sprintf("%+v", lesson{Imitation: imitation(0, 0)}))
	return slices.DeleteFunc(words(line), func(word string) bool {
		_, value, named := strings.Cut(word, ":")
		return named && slices.Contains([]string{"", "0", "false", "<nil>"}, value) || slices.Contains(defaults, word)
	})
}
