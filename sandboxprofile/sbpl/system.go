package sbpl

// A named thing of the system that every sandbox may ask for, and why.
type named struct{ filter, name, reason string }

// A systemFile is a path of the system that every sandbox may use, and why.
type systemFile struct {
	path       string
	tree       bool // and everything below
	operations string
	reason     string
}

func (s systemFile) filter() string {
	if s.tree {
		return subpath(s.path)
	}
	return literal(s.path)
}

// systemFiles have no data of the user's. Most lie on the sealed system volume.
func systemFiles() []systemFile {
	const read, library = "file-read* file-test-existence", "file-read* file-test-existence file-map-executable"
	return []systemFile{
		{"/", false, read, "No process starts without reading the root directory."},
		{"/etc", false, read, "A link that paths are resolved through."},
		{"/tmp", false, read, "A link that paths are resolved through."},
		{"/var", false, read, "A link that paths are resolved through."},
		{"/usr/lib", true, library, "The dynamic linker and the system's libraries."},
		{"/System/Library", true, library, "The system's frameworks."},
		{"/System/Volumes/Preboot/Cryptexes/OS", true, library, "The shared cache of libraries, since macOS 13."},
		{"/private/etc/localtime", false, read, "The time zone: a link."},
		{"/private/var/db/timezone", true, read, "The time zone that the link leads to."},
		{"/private/var/select/sh", false, read, "Which shell /bin/sh is."},
	}
}

func systemDevices() []systemFile {
	const use = "file-read* file-test-existence file-write-data"
	return []systemFile{
		{"/dev", false, "file-read-metadata file-test-existence", "On the way to the devices below."},
		{"/dev/null", false, use + " file-ioctl", "What output is thrown into; isatty(3) asks it by ioctl."},
		{"/dev/zero", false, use, "Zeroes."},
		{"/dev/random", false, use, "Random bytes."},
		{"/dev/urandom", false, use, "Random bytes."},
		{"/dev/fd", true, use, "The process's own descriptors."},
		{"/dev/stdin", false, "file-read* file-test-existence", "A link to a descriptor."},
		{"/dev/stdout", false, "file-read* file-test-existence", "A link to a descriptor."},
		{"/dev/stderr", false, "file-read* file-test-existence", "A link to a descriptor."},
		{"/dev/tty", false, use + " file-ioctl", "The controlling terminal, which is the sandbox's own or none."},
		{"/dev/ptmx", false, use + " file-ioctl", "A new pseudo terminal."},
	}
}

// machServices are the services that libc itself talks to. Not among them:
// services that start programs outside (launchservicesd, AppleEvents), the
// keychain (securityd), the pasteboard, preferences (cfprefsd writes for any
// client), and trustd, which fetches from the network for any client.
func machServices() []named {
	const global = "global-name"
	return []named{
		{global, "com.apple.system.opendirectoryd.libinfo", "getpwuid(3): git, ssh and run times look up the user's name and home."},
		{global, "com.apple.system.opendirectoryd.membership", "getgrouplist(3): group membership."},
		{global, "com.apple.system.notification_center", "notify(3): libc's caches and the time zone."},
		{global, "com.apple.system.logger", "syslog(3); without it libraries wait for it."},
		{global, "com.apple.logd", "os_log(3); without it libraries wait for it."},
	}
}

// networkServices are granted with the host's network only: each can be made to
// send something out.
func networkServices() []named {
	const global = "global-name"
	return []named{
		{global, "com.apple.SystemConfiguration.DNSConfiguration", "Which name servers there are."},
		{global, "com.apple.SystemConfiguration.configd", "Interfaces and proxies."},
		{global, "com.apple.trustd.agent", "Verification of certificates, which Go's and Apple's TLS leave to it."},
		{global, "com.apple.trustd", "Verification of certificates, system-wide."},
	}
}

func sharedMemory() []named {
	return []named{{"ipc-posix-name", "apple.shm.notification_center", "notify(3) reads its state from here."}}
}

// sysctls are read at start-up by libc and run times. kern.proc, which lists
// processes, is not among them.
func sysctls() []named {
	const exact, prefix = "sysctl-name", "sysctl-name-prefix"
	return []named{
		{exact, "hw.activecpu", "How many threads make sense."},
		{exact, "hw.byteorder", "What this processor is."},
		{exact, "hw.cachelinesize", "How memory is best laid out."},
		{exact, "hw.cpufamily", "What this processor is."},
		{exact, "hw.cpusubtype", "What this processor is."},
		{exact, "hw.cputype", "What this processor is."},
		{exact, "hw.l1dcachesize", "How memory is best laid out."},
		{exact, "hw.l1icachesize", "How memory is best laid out."},
		{exact, "hw.l2cachesize", "How memory is best laid out."},
		{exact, "hw.l3cachesize", "How memory is best laid out."},
		{exact, "hw.logicalcpu", "How many threads make sense."},
		{exact, "hw.logicalcpu_max", "How many threads make sense."},
		{exact, "hw.machine", "uname(3)."},
		{exact, "hw.memsize", "How large a heap may grow."},
		{exact, "hw.ncpu", "How many threads make sense."},
		{exact, "hw.nperflevels", "How many threads make sense."},
		{prefix, "hw.optional.", "Which instructions this processor has."},
		{exact, "hw.pagesize", "Allocation."},
		{exact, "hw.pagesize_compat", "Allocation."},
		{prefix, "hw.perflevel", "How many threads make sense."},
		{exact, "hw.physicalcpu", "How many threads make sense."},
		{exact, "hw.physicalcpu_max", "How many threads make sense."},
		{exact, "hw.tbfrequency", "Clocks."},
		{exact, "kern.argmax", "How long an argument list may be."},
		{exact, "kern.boottime", "Clocks."},
		{exact, "kern.hostname", "uname(3), gethostname(3)."},
		{exact, "kern.maxfilesperproc", "How many descriptors there may be."},
		{exact, "kern.ngroups", "getgroups(2)."},
		{exact, "kern.osproductversion", "Which macOS this is."},
		{exact, "kern.osrelease", "uname(3)."},
		{exact, "kern.ostype", "uname(3)."},
		{exact, "kern.osvariant_status", "Which macOS this is."},
		{exact, "kern.osversion", "Which macOS this is."},
		{exact, "kern.secure_kernel", "The dynamic linker asks."},
		{exact, "kern.usrstack64", "Where the stack of the first thread lies."},
		{exact, "kern.version", "uname(3)."},
		{prefix, "machdep.cpu.", "Which instructions this processor has."},
		{exact, "sysctl.proc_cputype", "Whether the process is translated."},
		{exact, "vm.loadavg", "getloadavg(3): make -l."},
	}
}
