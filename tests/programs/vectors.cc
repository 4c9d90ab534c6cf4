// vectors N: spawns N copies of itself, sends each a vector, and adds up what they send back. In C++, with what C++
// programs bring along: exceptions through the program's own frames, output at its end, a message handler without a class.
#include <pvm3.h>

#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

const int kWork = 1, kResult = 2, kSeen = 3;
int seen = 0;

int count_one(int)
{
	return ++seen;
}

void check(int code, const char *what)
{
	if (code < 0)
		throw std::runtime_error(std::string(what) + ": " + std::to_string(code));
}

std::vector<double> receive(int tid, int tag)
{
	int count = 0;
	check(pvm_recv(tid, tag), "pvm_recv");
	check(pvm_upkint(&count, 1, 1), "pvm_upkint");
	std::vector<double> values(count);
	check(pvm_upkdouble(values.data(), count, 1), "pvm_upkdouble");
	return values;
}

void send(int tid, int tag, std::vector<double> values)
{
	int count = static_cast<int>(values.size());
	check(pvm_initsend(PvmDataDefault), "pvm_initsend");
	check(pvm_pkint(&count, 1, 1), "pvm_pkint");
	check(pvm_pkdouble(values.data(), count, 1), "pvm_pkdouble");
	check(pvm_send(tid, tag), "pvm_send");
}

int work(int parent)
{
	std::vector<double> values = receive(parent, kWork);
	for (double &value : values)
		value *= 2;
	send(parent, kResult, values);
	pvm_initsend(PvmDataDefault);
	pvm_send(parent, kSeen);
	return pvm_exit();
}

int lead(const char *program, int count)
{
	std::vector<int> tids(count);
	check(pvm_addmhf(-1, kSeen, pvm_getcontext(), count_one), "pvm_addmhf");
	int started = pvm_spawn(const_cast<char *>(program), 0, PvmTaskDefault, const_cast<char *>(""), count, tids.data());
	if (started != count)
		throw std::runtime_error("not all started");
	for (int tid : tids)
		send(tid, kWork, std::vector<double>(1000, 0.5));
	double sum = 0;
	for (int tid : tids) {
		std::vector<double> values = receive(tid, kResult);
		sum += std::accumulate(values.begin(), values.end(), 0.0);
	}
	while (seen < count)
		pvm_probe(-1, kSeen);
	std::cout << "sum " << sum << std::endl;
	try {
		check(pvm_send(tids[0], -7), "pvm_send with a negative tag");
	} catch (const std::exception &error) {
		std::cout << error.what() << std::endl;
	}
	return pvm_exit();
}

}  // namespace

int main(int argc, char **argv)
{
	try {
		int parent = pvm_parent();
		return parent > 0 ? work(parent) : lead(argv[0], argc > 1 ? std::atoi(argv[1]) : 1);
	} catch (const std::exception &error) {
		std::cerr << error.what() << std::endl;
		return 1;
	}
}
