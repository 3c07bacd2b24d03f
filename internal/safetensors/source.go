package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"vagen/internal/regular"
)

// source is one open file. Conversions always use ReadAt: it needs no resident pages,
// and a file truncated while it is open gives an error instead of a fault.
type source struct {
	path   string
	file   *os.File
	start  int64  // of the data in the file
	mapped []byte // the whole file, or nil where mapping is not available
}

// openSource opens and checks one file. With mapping false, or where the
// platform has none, views are read into memory instead.
func openSource(path string, mapping bool) (_ *source, _ *header, err error) {
	file, err := regular.Open(path)
	if errors.Is(err, regular.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return nil, nil, err
	}
	s := &source{path: path, file: file}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	head, err := s.header(info.Size())
	if err != nil {
		return nil, nil, err
	}
	if mapping {
		if s.mapped, err = mapFile(file, info.Size()); err != nil {
			return nil, nil, fmt.Errorf("memory map: %w", err)
		}
	}
	return s, head, nil
}

func (s *source) header(size int64) (*header, error) {
	var word [lengthBytes]byte
	if size < lengthBytes {
		return nil, fmt.Errorf("%w: %d bytes, want at least %d", ErrFormat, size, lengthBytes)
	}
	if _, err := s.file.ReadAt(word[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(word[:])
	if n > maxHeader {
		return nil, fmt.Errorf("%w: header of %d bytes, maximum is %d", ErrFormat, n, maxHeader)
	}
	if int64(n) > size-lengthBytes {
		return nil, fmt.Errorf("%w: header of %d bytes in a file of %d", ErrFormat, n, size)
	}
	raw := make([]byte, n)
	if _, err := s.file.ReadAt(raw, lengthBytes); err != nil {
		return nil, noEOF(err)
	}
	s.start = lengthBytes + int64(n)
	return parseHeader(raw, size-s.start)
}

// view returns the bytes of sp: part of the map, or a copy.
func (s *source) view(sp span) ([]byte, error) {
	if s.mapped != nil {
		end := s.start + sp.end
		return s.mapped[s.start+sp.begin : end : end], nil
	}
	b := make([]byte, sp.end-sp.begin)
	if _, err := s.file.ReadAt(b, s.start+sp.begin); err != nil {
		return nil, noEOF(err)
	}
	return b, nil
}

// chunks passes the bytes of sp to fn in pieces that fit buf.
func (s *source) chunks(sp span, buf []byte, fn func([]byte) error) error {
	for at := sp.begin; at < sp.end; {
		b := buf[:min(int64(len(buf)), sp.end-at)]
		if n, err := s.file.ReadAt(b, s.start+at); n < len(b) {
			if err == io.EOF {
				return fmt.Errorf("the file was truncated while it was open: %w", io.ErrUnexpectedEOF)
			}
			return err
		}
		if err := fn(b); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// release lets the system drop the pages behind a view.
func (s *source) release(sp span) {
	if s.mapped != nil {
		dropPages(s.mapped, s.start+sp.begin, s.start+sp.end)
	}
}

func (s *source) close() error {
	var err error
	if s.mapped != nil {
		err = unmapFile(s.mapped)
		s.mapped = nil
	}
	if cerr := s.file.Close(); err == nil {
		err = cerr
	}
	return err
}
