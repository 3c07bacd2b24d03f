//go:build !unix && !windows

package regular

// nonblock is not among the flags of other systems, such as js.
const nonblock = 0
