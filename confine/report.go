package confine

// A Report is doctor's report about a host: the probes and the conclusion.
type Report struct {
	// Ready says that some backend works, so tools can be confined.
	Ready  bool   `json:"ready"`
	Chosen string `json:"chosen,omitempty"` // by auto
	// Found lists the settings of a container or host that bar namespaces or mask paths.
	Found    []string        `json:"found,omitempty"`
	Backends []BackendReport `json:"backends"`
	Probes   []Finding       `json:"probes"`
}

// A BackendReport says whether a backend works here, and what it cannot do.
type BackendReport struct {
	Name   string `json:"name"`
	Works  bool   `json:"works"`
	Reason string `json:"reason,omitempty"` // why not
	Remedy string `json:"remedy,omitempty"`
	// Refuses are the parts of a profile for which it refuses to stand, on every host.
	Refuses []Limitation `json:"refuses,omitempty"`
}

// A Limitation is a part of a profile, and why a backend cannot keep it.
type Limitation struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// NewBackendReport turns the probes of one backend into what they come to.
func NewBackendReport(name string, findings []Finding) BackendReport {
	b := BackendReport{Name: name, Works: Ready(findings)}
	for _, f := range findings {
		if f.Needed && f.Status != Held {
			b.Reason, b.Remedy = f.Name+": "+f.Detail, f.Remedy
			break
		}
	}
	return b
}

// NewReport chooses as auto does: the first that works.
func NewReport(backends []BackendReport, probes []Finding) Report {
	r := Report{Backends: backends, Probes: probes}
	for _, b := range backends {
		if b.Works && !r.Ready {
			r.Ready, r.Chosen = true, b.Name
		}
	}
	return r
}
