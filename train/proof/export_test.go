package proof

// Sealed returns a line with its hash.
func Sealed(body string) string {
	if len(body) == 0 {
		body = "{}"
	}
	return body[:len(body)-1] + hashKey + sum([]byte(body[:len(body)-1]+"}")) + `"}`
}

// InputPaths exports inputPaths.
var InputPaths = inputPaths
