package audit

// Names whose value is a secret. Lower-case names are those of configuration and
// of tool arguments; upper-case ones are environment variables.
const (
	fieldNames = `(?i:(?:[a-z0-9_.-]*[_.-])?(?:password|passwd|passphrase|secret|client_?secret|api[_-]?key|access[_-]?key|` +
		`secret[_-]?key|private[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|bearer|authorization|credentials?|cookie))|` +
		`(?i:token)|` + variableNames
	flagNames = `(?:[a-z0-9-]*-)?(?:password|passwd|passphrase|token|secret|api-?key|secret-key|access-key)`

	variableNames = `[A-Z0-9_]*(?:_TOKEN|_SECRET|_PASSWORD|_PASSWD|_PASSPHRASE|_KEY|_APIKEY|_PWD|_PAT|_CREDENTIALS)|` +
		`TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|APIKEY|PGPASSWORD`
)

// nameHints are lower-case strings of which every name above contains one.
var nameHints = []string{"pass", "token", "secret", "key", "bearer", "authorization", "credential", "cookie", "_pwd", "_pat"}

// DefaultRules returns the shipped rules.
func DefaultRules() []Rule {
	return []Rule{
		{
			Name:    "private-key",
			Pattern: `(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?P<secret>.*?)(?:-----END|\z)`,
			Hints:   []string{"-----BEGIN "},
			Match: []string{
				"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----",
				"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg", // cut off: no end
				"-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----",
			},
			NoMatch: []string{"-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\nMIIB"},
		},
		{
			Name:    "url-password",
			Pattern: `(?i)\b[a-z][a-z0-9+.-]*://[^\s/?#:@"'\[]*:(?P<secret>[^\s/?#"']+)@`,
			Hints:   []string{"://"},
			Match:   []string{"https://user:hunter2@example.com/x", "postgres://app:p@ss@db/prod", "redis://:secret@cache:6379"},
			NoMatch: []string{"https://example.com:8443/a@b", "ssh://git@github.com/a/b", "see http://a.b:80/ and me@c.d"},
		},
		{
			Name:    "url-token",
			Pattern: `(?i)\bhttps?://(?P<secret>[^\s/?#:@"']+)@`,
			Hints:   []string{"://"},
			Match:   []string{"git clone https://s3cr3tt0ken@example.com/a/b"},
			NoMatch: []string{"https://example.com/@scope/pkg", "ssh://git@github.com/a"},
		},
		{
			Name:    "github-token",
			Pattern: `\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})`,
			Hints:   []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"},
			Match:   []string{"ghp_0123456789abcdefghijklmnopqrstuvwxyz", "x=github_pat_11ABCDEFG0123456789_abcdef"},
			NoMatch: []string{"ghp_short", "the ghp_ prefix", "my_ghp_function"},
		},
		{
			Name:    "gitlab-token",
			Pattern: `\bgl(?:pat|rt|ptt|dt)-[A-Za-z0-9_-]{20,}`,
			Hints:   []string{"glpat-", "glrt-", "glptt-", "gldt-"},
			Match:   []string{"glpat-abcdefghij0123456789"},
			NoMatch: []string{"glpat-short"},
		},
		{
			Name:    "slack-token",
			Pattern: `\bxox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,})`,
			Hints:   []string{"xox", "hooks.slack.com"},
			Match:   []string{"https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"},
			NoMatch: []string{"xoxo", "hooks.slack.com/services"},
		},
		{
			Name:    "sk-token", // OpenAI, Anthropic, OpenRouter, ...
			Pattern: `\bsk-(?:[a-z]+[0-9]*-){0,3}[A-Za-z0-9_]{20,}[A-Za-z0-9_-]*`,
			Hints:   []string{"sk-"},
			Match:   []string{"sk-abcdefghijklmnopqrstuvwx0123456789", "sk-ant-api03-abcdefghij0123456789xyz-AA", "sk-proj-abcdefghij0123456789"},
			NoMatch: []string{"task-0123456789abcdefghijklmnop", "sk-learn", "risk-assessment-of-everything-in-sight"},
		},
		{
			Name:    "stripe-key",
			Pattern: `\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`,
			Hints:   []string{"k_live_", "k_test_"},
			Match:   []string{"sk_" + "live_abcdefghij0123456789"},
			NoMatch: []string{"task_test_abcdefghij0123456789", "sk_live_"},
		},
		{
			Name:    "google-key",
			Pattern: `\bAIza[A-Za-z0-9_-]{35}`,
			Hints:   []string{"AIza"},
			Match:   []string{"AIza0123456789abcdefghijklmnopqrstuvwxy"},
			NoMatch: []string{"AIzawa"},
		},
		{
			Name:    "package-token", // npm, PyPI
			Pattern: `\bnpm_[A-Za-z0-9]{36}|\bpypi-[A-Za-z0-9_-]{50,}`,
			Hints:   []string{"npm_", "pypi-"},
			Match:   []string{"npm_0123456789abcdefghijklmnopqrstuvwxyz"},
			NoMatch: []string{"npm_config_registry", "pypi-mirror"},
		},
		{
			Name:    "aws-access-key",
			Pattern: `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`,
			Hints:   []string{"AKIA", "ASIA", "ABIA", "ACCA"},
			Match:   []string{"AKIAIOSFODNN7EXAMPLE"},
			NoMatch: []string{"AKIA", "AKIAiosfodnn7example", "EURASIAN"},
		},
		{
			Name:    "jwt",
			Pattern: `\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
			Hints:   []string{"eyJ"},
			Match:   []string{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN"},
			NoMatch: []string{"eyJhbGciOiJIUzI1NiJ9", "a.b.c"},
		},
		{
			Name:    "authorization", // header values
			Pattern: `(?i)\bauthorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer|token|digest|negotiate)\s+)?(?P<secret>[^\s"',;]+)`,
			Hints:   []string{"uthorization", "UTHORIZATION"},
			Match:   []string{"curl -H 'Authorization: Basic dXNlcjpwYXNz'", "authorization: abc"},
			NoMatch: []string{"authorization required", "Authorization is a header"},
		},
		{
			Name:    "bearer-token",
			Pattern: `(?i)\bbearer\s+(?P<secret>[A-Za-z0-9\-._~+/]{16,}=*)`,
			Hints:   []string{"earer", "EARER"},
			Match:   []string{"Bearer abcdefghijklmnop.0123"},
			NoMatch: []string{"the bearer of news", "a bearer token"},
		},
		{
			Name: ruleVariable, // NAME=value in a command or a file
			// A value that begins with $ is a reference, not a secret.
			Pattern: `\b(?:` + variableNames + `)=(?P<secret>"(?:[^"\\]|\\.)+"|'[^']+'|[^\s;&|$"'<>()]+)`,
			Hints:   []string{"TOKEN=", "SECRET=", "PASSWORD=", "PASSWD=", "PASSPHRASE=", "KEY=", "_PWD=", "_PAT=", "CREDENTIALS="},
			Match:   []string{"API_TOKEN=abc make", `export DB_PASSWORD="a b"`, "X=1 AWS_SECRET_ACCESS_KEY='q'", "PGPASSWORD=x psql"},
			NoMatch: []string{"API_TOKEN=$TOKEN make", "TOKEN= make", "OLDPWD=/tmp", "PWD=/home/u", "MONKEY=banana", "KEY=a"},
		},
		{
			Name:    ruleFlag, // --password value in a command
			Pattern: `(?:^|\s)--?` + flagNames + `(?:=|\s+)(?P<secret>"[^"]+"|'[^']+'|[^\s;&|$"'<>()-][^\s;&|"'<>()]*)`,
			Hints:   []string{"passw", "passphrase", "token", "secret", "key"},
			Match:   []string{"login --password hunter2", "x --api-key=abc", `mysql --password="a b"`, "gh --auth-token t"},
			NoMatch: []string{"git log --no-merges", "x --password-file f", "x --password $PW", "x --token-type bearer", "x --password -v"},
		},
		{
			Name:    "curl-user",
			Pattern: `(?:^|\s)(?:-u|--user)\s*["']?[^\s:"']+:(?P<secret>[^\s"']+)`,
			Hints:   []string{"-u", "--user"},
			Match:   []string{"curl -u me:hunter2 https://x", "curl --user 'me:pw' x"},
			NoMatch: []string{"docker run --user 1000", "sort -u file", "git push -u origin main"},
		},
	}
}
