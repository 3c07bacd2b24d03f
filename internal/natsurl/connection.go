package natsurl

import (
	"regexp"

	"vagen/internal/field"
	"vagen/internal/origin"
)

// Embedded as the URL of a queue is a server in the trainer's process.
const Embedded = "embedded"

// Connection says where a queue is and how to log in there. The fields are those of the options of package train/queue,
// whose names the errors of its checks have.
type Connection struct {
	URL, Name, Creds, User string
	Key                    bool // there is a token, or the password of User
	CA, Cert, CertKey      string
}

var nameText = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// Check checks all of it, without showing what may be a secret.
func (o *Connection) Check(c *field.Checks) {
	if !nameText.MatchString(o.Name) {
		c.Bad("Name", "%q, must be 1 to 32 letters, digits, - and _", o.Name)
	}
	if o.Creds != "" && (o.User != "" || o.Key) {
		c.Bad("Creds", "%q, but {User} or a key ({Key}) is set, too: only one way to log in is possible", o.Creds)
	}
	if o.User != "" && !o.Key {
		c.Bad("User", "%q, but {Key}, the password, is not set", o.User)
	}
	if (o.Cert == "") != (o.CertKey == "") {
		c.Bad("Cert", "%q and {CertKey} %q: both must be set, or none", o.Cert, o.CertKey)
	}
	if o.URL != Embedded {
		if err := Check(o.URL); err != nil {
			c.Bad("URL", "not %s, and %v", Embedded, err)
		}
	}
}

// CheckServer checks what an embedded server needs beside Check, and the address where it listens.
func (o *Connection) CheckServer(c *field.Checks, listen string) {
	if o.Creds != "" {
		c.Bad("Creds", "%q, but an embedded server knows only {Key}, and {User} with {Key}", o.Creds)
	}
	if o.CA != "" {
		c.Bad("CA", "%q, but an embedded server is in this process: only workers need it", o.CA)
	}
	host, _, err := Listen(listen)
	if err != nil {
		c.Bad("Listen", "%v", err)
	} else if !o.Key && !origin.Loopback(host) {
		c.Bad("Listen", "%q, which other machines can reach: set {Key}, a token or password, or listen on 127.0.0.1",
			listen)
	}
}
