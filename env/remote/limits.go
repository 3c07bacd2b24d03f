package remote

// Limits bound the messages that are accepted from the other side. They are checked
// before memory is allocated.
type Limits struct {
	Body   int64 `option:"Limits.Body" least:"1"`   // bytes of a request's or a response's body
	Parts  int   `option:"Limits.Parts" least:"1"`  // parts of a multipart body, images and data
	Pixels int   `option:"Limits.Pixels" least:"1"` // of all images of a message together
}

// defaultLimits allows 64 MiB, 64 images and 32 megapixels. DefaultServerOptions allows
// bodies of 16 MiB only, since requests have no images.
func defaultLimits() Limits { return Limits{Body: 64 << 20, Parts: 65, Pixels: 32 << 20} }
