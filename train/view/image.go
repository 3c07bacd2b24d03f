package view

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
)

// imageShown is the kind of images of validation episodes in readable form.
const imageShown = "shown"

// imagePattern is the name of a stored image: a hash of its content.
var imagePattern = regexp.MustCompile(`^[0-9a-f]{64}\.png$`)

// maxImage limits an image in bytes.
const maxImage = 64 << 20

// imageURL is the address of an image, nil if there is no such file.
func (r *run) imageURL(root *os.Root, file, kind string, step int, name string) *string {
	if info, err := root.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	q := url.Values{"kind": {kind}, "name": {name}}
	if kind == imageShown {
		q.Set("step", fmt.Sprint(step))
	}
	s := "/api/runs/" + r.id + "/image?" + q.Encode()
	return &s
}

// image sends an image of a run.
func (h *handler) image(w http.ResponseWriter, req *http.Request) {
	run, err := h.run(req.PathValue("run"))
	if err == nil {
		err = run.sendImage(w, req)
	}
	if err != nil {
		refuse(w, err)
	}
}

func (r *run) sendImage(w http.ResponseWriter, req *http.Request) error {
	f, info, err := r.openImage(req.URL.Query())
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "image/png")
	http.ServeContent(w, req, "", info.ModTime(), f)
	return nil
}

// openImage opens the image with the parameters of an imageURL.
func (r *run) openImage(q url.Values) (*os.File, fs.FileInfo, error) {
	folder, file, err := r.imageFile(q.Get("kind"), q.Get("step"), q.Get("name"))
	if err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, notFound("the image is not stored")
	}
	defer root.Close()
	f, info, err := openFile(root, file)
	if err != nil {
		return nil, nil, notFound("the image is not stored")
	}
	if info.Size() > maxImage {
		f.Close()
		return nil, nil, failure{http.StatusUnprocessableEntity, errors.New("the image is too large")}
	}
	return f, info, nil
}

// imageFile is the folder of an image, and its path in it.
func (r *run) imageFile(kind, step, name string) (folder, file string, err error) {
	if kind == imageShown {
		n, err := count(step, "step")
		if err != nil || !shownImage.MatchString(name) {
			return "", "", badRequest("name: %q is not that of an image", clip(name, 100))
		}
		return r.path, path.Join(shownFolder(n), name), nil
	}
	if !slices.Contains([]string{kindTrain, kindVal, kindMeasured}, kind) {
		return "", "", badRequest("kind: %q is not train, val, measured or shown", clip(kind, 20))
	}
	if !imagePattern.MatchString(name) {
		return "", "", badRequest("name: %q is not that of an image", clip(name, 100))
	}
	root, done, err := r.open()
	if err != nil {
		return "", "", notFound("the image is not stored")
	}
	defer done()
	if r.episodes.folders == nil {
		r.loadConfig(root)
		r.episodes.refresh(r, root)
	}
	if folder = r.episodes.folders[kind]; folder == "" {
		return "", "", notFound("the image is not stored")
	}
	return folder, path.Join(imageFolder, name), nil
}
