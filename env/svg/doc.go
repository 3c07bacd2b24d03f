// Package svg is the task of reproducing a picture with SVG code.
//
// An episode shows the picture of a drawing. Each turn the model writes SVG code, which
// is drawn and compared with the picture. The reward is the format reward plus a
// weighted sum of similarity scores: the parts "format" and "score", or "invalid" for a
// turn without valid code. The next observation shows what was drawn, so that the model
// can correct it. No episode ends in success. It lasts until the caller stops it; under
// Episode rules, a response without valid code ends it too.
//
// Rules, parsing and scores are those of VAGEN's legacy environment. Pictures are drawn
// by this package's own renderer instead of CairoSVG; they differ by a few levels along
// edges. There are four scores:
//
//	DINO, DreamSim  the original's; they need a model behind a Scorer, such as HTTPScorer
//	structural      the original's, bit for bit: how well the edges of the pictures agree
//	perceptual      this package's own, without a model: how well the colours agree at
//	                several resolutions; it is the default environment's score
//
// Targets come from a Dataset: a folder of SVG files, a file of JSON lines, or 38
// icons that come with the package.
package svg
