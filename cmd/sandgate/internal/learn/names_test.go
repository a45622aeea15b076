package learn

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSecretsByTheirNames: files of programs hold secrets under other names than password, secret and token. The twins
// are files that programs need, and that look alike.
func TestSecretsByTheirNames(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"settings of a web framework": {"DEBUG = True\nSECRET_KEY = 'k3u9#x1m%2q8vz7w'\n", true},
		"a signing key":               {"signing_key: \"5f2e9b1c7d3a48e6\"\n", true},
		"an encryption key":           {"APP_ENCRYPTION_KEY=5f2e9b1c7d3a48e6\n", true},
		"a private key as a value":    {"deploy.private_key = 5f2e9b1c7d3a48e6b0\n", true},
		"a copier of files":           {"[box]\ntype = sftp\nuser = me\npass = zV4Kk2mQpJw1xTt8\n", true},
		"variables of a database":     {"DB_USER=app\nDB_PASS=correcthorse9\n", true},
		"a short name of one":         {"MYSQL_PWD=correcthorse9\n", true},
		"a wireless network":          {"network={\n\tssid=\"home\"\n\tpsk=\"correct horse\"\n}\n", true},
		"a second factor":             {"otpauth://totp/me@example.com?secret=JBSWY3DPEHPK3PXP&issuer=x\n", true},
		"an address with a login":     {"repository: https://me:correcthorse9@example.com/r\n", true},
		"a header of a login":         {"header = \"Authorization: Basic bWU6Y29ycmVjdGhvcnNlOQ==\"\n", true},
		"accounts with their hashes":  {"me:$apr1$x8f2k1b9$3vQm1Zy0Ka7r5S6d7e8f90\n", true},
		"accounts of a system":        {"root:$6$x8f2k1b9$3vQm1Zy0Ka7r5S6d7e8f903vQm1Zy0Ka7r5S6d7e8f90:19000:0:99999:7:::\n", true},
		"a database's own list":       {"db.example.com:5432:app:me:correcthorse9\n", true},

		"a name of a key":          {"sort_key = created_at\nprimary_key: identifier\nhot_key = control\n", false},
		"a file that one is in":    {"PIDFILE=/run/x.pid\npassthrough = enabled\nbypass = localhost\n", false},
		"a directory":              {"PWD=/home/me/work\nOLDPWD=/home/me/other\n", false},
		"an address with a port":   {"http://localhost:8080/a@b\nssh://git@example.com:22/x\n", false},
		"words about them":         {"the secret key is kept elsewhere; a pass of the compiler\n", false},
		"numbers between colons":   {"usb:1d6b:0002:me:hub\n12:30:45:678:90\n", false},
		"accounts without a hash":  {"root:x:0:0:root:/root:/bin/sh\n", false},
		"a setting that is a name": {"secret_key = ${KEY}\npass = $PASS\npassword_file = /etc/x\n", false},
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := secretAt(path, func(string) bool { return false }) != ""; got != c.want {
			t.Errorf("%s: looks like a secret: %v, want %v", name, got, c.want)
		}
	}
}
