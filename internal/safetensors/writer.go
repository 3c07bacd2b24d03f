package safetensors

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vagen/internal/durable"
)

// Writer writes tensors one after the other, in the order given to [Create] or
// [CreateSharded]. No file has its final name before [Writer.Commit]; closing a Writer
// without Commit removes its files. After an error only Close is allowed. It is not
// safe for concurrent use.
type Writer struct {
	label   string // for messages: the file or the folder
	parts   []part
	index   []byte // of shards, else nil
	tensors []Tensor
	at      int   // index in tensors of the one being written
	left    int64 // bytes of tensors[at] still to come
	cur     int   // index in parts of the open file
	partEnd int   // index in tensors of the first one after that file
	file    *os.File
	out     *bufio.Writer
	buf     []byte
	done    bool
	failed  error
}

// part is one file: its final path, its temporary path and its tensors.
type part struct {
	path    string
	temp    string // "" until created
	header  []byte
	tensors int
}

// Create starts writing a file, which replaces path on Commit. The bytes depend
// only on the arguments and the values. Metadata gets "format": "pt", which
// transformers requires, unless it has that key.
//
// Tensors follow each other without gaps, starting at a multiple of 8, so each is aligned to
// its element size if wider types come first.
func Create(path string, tensors []Tensor, metadata map[string]string) (*Writer, error) {
	w := &Writer{label: path, tensors: cloneTensors(tensors)}
	if err := checkTensors(w.tensors); err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	head, err := encodeHeader(w.tensors, metadata)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	w.parts = []part{{path: path, header: head, tensors: len(tensors)}}
	return w.start()
}

// start opens the first file.
func (w *Writer) start() (*Writer, error) {
	w.buf = make([]byte, chunkBytes)
	w.cur = -1
	if err := w.nextPart(); err != nil {
		w.discard()
		return nil, fmt.Errorf("safetensors: %s: %w", w.label, err)
	}
	if len(w.tensors) > 0 {
		w.left = w.tensors[0].Bytes()
	}
	return w, nil
}

// nextPart finishes the open file and opens the following one.
func (w *Writer) nextPart() error {
	if err := w.finishPart(); err != nil {
		return err
	}
	w.cur++
	p := &w.parts[w.cur]
	file, err := durable.CreateTemp(p.path)
	if err != nil {
		return err
	}
	p.temp, w.file = file.Name(), file
	w.partEnd += p.tensors
	w.out = bufio.NewWriterSize(file, chunkBytes)
	_, err = w.out.Write(p.header)
	return err
}

func (w *Writer) finishPart() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	return errors.Join(w.out.Flush(), file.Sync(), file.Close())
}

// advance moves to the next tensor, and to the next file if it is in that file.
func (w *Writer) advance() error {
	w.at++
	if w.at == len(w.tensors) {
		return nil
	}
	if w.at == w.partEnd {
		if err := w.nextPart(); err != nil {
			return err
		}
	}
	w.left = w.tensors[w.at].Bytes()
	return nil
}

// Float32 writes values of the named tensor, which must be the next in order,
// rounded to the tensor's type (F32, F16 or BF16; ties to even). A large tensor may be
// written in several calls; an empty one needs one call. A finite value that would
// become infinite in the type is an error.
func (w *Writer) Float32(name string, src []float32) error {
	return w.with(name, func(t Tensor) error {
		if t.DType != F32 && t.DType != F16 && t.DType != BF16 {
			return wrongDType(t.DType)
		}
		if int64(len(src))*int64(t.DType.Size()) > w.left {
			return fmt.Errorf("%d values, but only %d are left to write", len(src), w.left/int64(t.DType.Size()))
		}
		for len(src) > 0 {
			k := min(len(src), chunkBytes/4)
			b, err := encodeFloat32(t.DType, w.buf, src[:k])
			if err != nil {
				return err
			}
			if err := w.write(b); err != nil {
				return err
			}
			src = src[k:]
		}
		return nil
	})
}

func (w *Writer) write(b []byte) error {
	w.left -= int64(len(b))
	_, err := w.out.Write(b)
	return err
}

// with checks that the named tensor is the next one, runs fn, and advances.
func (w *Writer) with(name string, fn func(Tensor) error) error {
	if w.done {
		return fmt.Errorf("safetensors: %s: %w", w.label, ErrClosed)
	}
	if w.failed != nil {
		return w.failed
	}
	if err := w.step(name, fn); err != nil {
		w.failed = fmt.Errorf("safetensors: %s: tensor %q: %w", w.label, name, err)
	}
	return w.failed
}

func (w *Writer) step(name string, fn func(Tensor) error) error {
	if w.at == len(w.tensors) {
		return errors.New("all tensors are written already")
	}
	if next := w.tensors[w.at]; next.Name != name {
		return fmt.Errorf("tensors must be written in order: the next one is %q", next.Name)
	}
	if err := fn(w.tensors[w.at]); err != nil {
		return err
	}
	if w.left > 0 {
		return nil
	}
	return w.advance()
}

// Commit checks that all tensors are complete, syncs the files, renames them to their
// final names (the index of shards last) and syncs the folder.
func (w *Writer) Commit() error {
	if w.done {
		return fmt.Errorf("safetensors: %s: %w", w.label, ErrClosed)
	}
	err := w.failed
	if err == nil {
		if err = w.commit(); err != nil {
			err = fmt.Errorf("safetensors: %s: %w", w.label, err)
		}
	}
	w.discard()
	return err
}

func (w *Writer) commit() error {
	if w.at < len(w.tensors) {
		return fmt.Errorf("tensor %q: %d bytes are missing", w.tensors[w.at].Name, w.left)
	}
	if err := w.finishPart(); err != nil {
		return err
	}
	for i := range w.parts {
		if err := os.Rename(w.parts[i].temp, w.parts[i].path); err != nil {
			return err
		}
		w.parts[i].temp = ""
	}
	dir := filepath.Dir(w.parts[0].path)
	if w.index != nil {
		if err := durable.WriteFile(filepath.Join(dir, indexName), w.index); err != nil {
			return err
		}
	}
	return durable.Sync(dir)
}

// Close removes files that were not committed. It is safe to defer.
func (w *Writer) Close() error {
	w.discard()
	return nil
}

// discard removes the remaining temporary files.
func (w *Writer) discard() {
	if w.done {
		return
	}
	w.done = true
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
	for _, p := range w.parts {
		if p.temp != "" {
			os.Remove(p.temp)
		}
	}
	w.buf, w.out = nil, nil
}
